# Draws sizes.svg: gnuplot sizes.gnuplot. The figures and where they are from: docs/performance.md,
# "Messages from 64 bytes to 2 KiB".
set terminal svg size 900,420 dynamic background 'white' font 'sans-serif,14'
set output 'sizes.svg'
set title 'Messages from 64 bytes to 2 KiB'
set xlabel 'bytes'
set logscale x 2
set xtics (64, 128, 256, 512, 1024, 2048)
set ylabel 'microseconds, one way'
set yrange [0:0.6]
set y2label 'million messages per second'
set y2range [0:6]
set ytics nomirror
set y2tics
set grid xtics ytics
set key outside bottom center horizontal
$sizes << EOD
64 0.24 4.6
128 0.32 4.1
256 0.33 3.7
384 0.34 3.7
512 0.36 3.3
640 0.46 2.9
768 0.46 2.8
1000 0.45 2.7
1024 0.46 3.1
1536 0.45 3.1
2048 0.48 3.2
EOD
plot $sizes using 1:2 with linespoints title 'latency' lc rgb '#d55e00' lw 2 pt 7, \
  $sizes using 1:3 axes x1y2 with linespoints title 'rate (right)' lc rgb '#0072b2' lw 2 pt 6
